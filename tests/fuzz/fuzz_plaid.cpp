// PLAID indexes: folders whose files say anything, opened, searched by their lists and exactly.
#include <array>

#include "fuzz/folder.hpp"
#include "fuzz/fuzz.hpp"
#include "io/builders.hpp"
#include "io/plaid_index.hpp"

namespace rowmax::fuzz {

namespace {

// An input is the contents of these files.
constexpr std::array names = {
    "metadata.json",  "centroids.npy",    "bucket_weights.npy",  "0.codes.npy", "0.residuals.npy",
    "doclens.0.json", "ivf.npy",          "ivf_lengths.npy",     "1.codes.npy", "1.residuals.npy",
    "doclens.1.json", "merged_codes.npy", "merged_residuals.npy"};

std::string array(const char* type, const std::string& shape, const std::string& data) {
    return test::npy(type, shape, data);
}

}  // namespace

std::vector<std::string> seeds() {
    using test::raw_list;
    const std::string centroids =
        array("<f4", "(2, 8)", raw_list<float>({1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0}));
    const std::string weights = array("<f4", "(2,)", raw_list<float>({-0.5, 0.5}));
    const std::string codes = array("<i8", "(3,)", raw_list<std::int64_t>({0, 1, 1}));
    const std::string residuals = array("|u1", "(3, 1)", "abc");
    const std::string ivf = array("<i8", "(3,)", raw_list<std::int64_t>({0, 0, 2}));
    const std::string lengths = array("<i4", "(2,)", raw_list<std::int32_t>({1, 2}));
    const std::vector<std::string> one{
        R"({"num_chunks": 1, "nbits": 1})", centroids, weights, codes, residuals, "[2, 0, 1]"};
    std::vector<std::string> listed = one;
    listed.insert(listed.end(), {ivf, lengths});
    std::vector<std::string> two = listed;
    two[0] = R"({"num_chunks": 2, "nbits": 1})";
    two.insert(two.end(), {codes, residuals, "[1, 2]"});
    std::vector<std::string> merged = two;
    merged.insert(merged.end(), {codes, residuals});
    return {joined(one), joined(listed), joined(two), joined(merged)};
}

namespace {

void search(const io::PlaidIndex& index) {
    if (index.token_count() > 4096 || index.count() > 4096 || index.dim() > 64 || index.centroid_count() > 4096) return;
    const std::vector<float> query(static_cast<std::size_t>(2 * index.dim()), 0.5F);
    TokenSet q;
    q.tokens = TensorView(query.data(), DType::f32, {2, index.dim()});
    const ResidualTables tables = index.tables();
    std::vector<std::int64_t> cu_seqlens;
    for (const io::PlaidChunk& chunk : index.chunks()) {
        attempt([&] {
            ScoreRequest request;
            request.q = q;
            request.d = io::PlaidIndex::documents(chunk, 0, chunk.count(), tables, cu_seqlens);
            std::vector<float> scores(static_cast<std::size_t>(chunk.count()));
            score(request, {TensorView(scores.data(), DType::f32, {chunk.count()}), {}, {}});
        });
    }
    const io::PlaidLists lists = index.lists();
    const PlaidIndexView view = index.view(lists);
    const std::int64_t kept = std::min<std::int64_t>(3, index.count());
    std::vector<float> scores(3);
    std::vector<std::int64_t> documents(3);
    for (const bool validate : {true, false}) {
        attempt([&] {
            Options options;
            options.validate = validate;
            options.threads = 1;
            plaid_search(q, view, 3, {2, 2, 0}, options, TensorView(scores.data(), DType::f32, {1, kept}),
                         TensorView(documents.data(), DType::i64, {1, kept}));
            for (std::int64_t i = 0; i < kept; ++i) {
                if (documents[static_cast<std::size_t>(i)] >= index.count()) abort();
            }
        });
    }
}

}  // namespace

}  // namespace rowmax::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rowmax;
    static const fuzz::Folder folder;
    folder.fill(fuzz::names, fuzz::text(data, size));
    fuzz::attempt([&] {
        const io::PlaidIndex index = io::PlaidIndex::open(folder.path());
        fuzz::search(index);
    });
    return 0;
}
