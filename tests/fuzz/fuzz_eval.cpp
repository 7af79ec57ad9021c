// Measures of any run and any judgments: numbers from 0 to 1.
#include "cli/eval/metrics.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/pieces.hpp"

namespace rowmax::fuzz {

std::vector<std::string> seeds() {
    return {joined({"ndcg", "1 0 a 2\n1 0 b -1\n1 0 c 1\n", "1 Q0 b 1 3 t\n1 Q0 a 2 2.5 t\n1 Q0 x 3 nan t\n"}),
            joined({"MRR@10", "q 0 a 1\n", "q Q0 a 1 inf t\nq Q0 b 1 1e300 t\n"}),
            joined({"P_5", "q 0 a 9223372036854775807\nq 0 b 9223372036854775807\n", "q Q0 a 1 -0 t\nq Q0 b 1 0 t\n"}),
            joined({"recall@2", "q 0 a 1\nq 0 b 0\n", "q Q0 b 1 1 t\n"}), joined({"map", "q 0 a 1\n", ""})};
}

namespace {

void measure(const cli::eval::Measure& measure, const std::vector<io::RunEntry>& entries, const io::QrelsQuery& query) {
    for (const std::int64_t level : {1, 0, 2, -1}) {
        const double value = cli::eval::value_of(measure, cli::eval::judge(entries, query.judgments, level));
        expect(value >= 0 && value <= 1.0000001);
    }
}

}  // namespace

}  // namespace rowmax::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rowmax;
    std::string_view rest = fuzz::text(data, size);
    std::string_view name, judgments, ranking;
    if (!fuzz::next_piece(rest, name) || !fuzz::next_piece(rest, judgments) || !fuzz::next_piece(rest, ranking))
        return 0;
    fuzz::attempt([&] {
        const cli::eval::Measure measure = cli::eval::parse_measure(name);
        fuzz::expect(cli::eval::parse_measure(measure.name()).name() == measure.name());
        const fuzz::MemoryFile qrels_file(judgments);
        const fuzz::MemoryFile run_file(ranking);
        const auto qrels = io::read_qrels(qrels_file.path());
        for (const io::RunQuery& answer : io::read_run(run_file.path())) {
            for (const io::QrelsQuery& query : qrels) {
                if (query.query == answer.query) fuzz::measure(measure, answer.entries, query);
            }
        }
    });
    return 0;
}
