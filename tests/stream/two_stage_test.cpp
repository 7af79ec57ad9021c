// Search in two stages over corpora in files, against exact search and for any memory.
#include "stream/two_stage.hpp"

#include <gtest/gtest.h>

#include "io/pack.hpp"
#include "io/support.hpp"
#include "stream/collection.hpp"
#include "support/throws.hpp"

namespace rowmax::stream {
namespace {

using test::collection;

constexpr std::int64_t dim = 20;

class TwoStage : public test::FileTest {
  protected:
    [[nodiscard]] Corpus corpus(const std::string& name, const io::TokenSource& source,
                                std::vector<Coarse> forms = {Coarse::int8, Coarse::fp8, Coarse::bits}) const {
        io::PackOptions options;
        options.coarse = std::move(forms);
        io::pack(source, at(name), options);
        return Corpus::open(at(name));
    }
    static TwoStageOptions options(Coarse form, std::int64_t candidates) {
        TwoStageOptions made;
        made.k = 7;
        made.candidates = candidates;
        made.form = form;
        return made;
    }
};

std::vector<std::vector<std::pair<double, std::int64_t>>> lists_of(const core::TopK& best) {
    std::vector<std::vector<std::pair<double, std::int64_t>>> lists;
    for (std::int64_t i = 0; i < best.queries(); ++i) {
        lists.emplace_back();
        for (const core::Hit& hit : best.ranked(i)) lists.back().emplace_back(hit.score, hit.document);
    }
    return lists;
}

TEST_F(TwoStage, OfAllDocumentsIsExact) {
    const io::TokenSource queries = collection(5, 3, dim, 1);
    const io::TokenSource first = collection(70, 6, dim, 2);
    const io::TokenSource second = collection(41, 9, dim, 3);
    const std::vector<Corpus> corpora{corpus("a", first), corpus("b", second)};
    core::TopK best(5, 7);
    std::int64_t number = 0;
    for (const io::TokenSource* source : {&first, &second}) {
        ScoreRequest request;
        const io::TokenBlock q = queries.all();
        const io::TokenBlock d = source->all();
        request.q = q.set;
        request.d = d.set;
        std::vector<float> scores(static_cast<std::size_t>(5 * source->count()));
        score(request, {TensorView(scores.data(), DType::f32, {5, source->count()}), {}, {}});
        for (std::int64_t i = 0; i < 5; ++i) {
            for (std::int64_t j = 0; j < source->count(); ++j) {
                best.push(i, double{scores[static_cast<std::size_t>(i * source->count() + j)]}, number + j);
            }
        }
        number += source->count();
    }
    for (const Coarse form : {Coarse::int8, Coarse::fp8, Coarse::bits}) {
        EXPECT_EQ(lists_of(search_two_stages(queries, corpora, options(form, 1000))), lists_of(best)) << name_of(form);
        const auto some = lists_of(search_two_stages(queries, corpora, options(form, 12)));
        ASSERT_EQ(some[0].size(), 7U);
        TwoStageOptions little = options(form, 12);
        little.memory = std::int64_t{6} << 20;
        little.score.threads = 1;
        EXPECT_EQ(lists_of(search_two_stages(queries, corpora, little)), some) << name_of(form);
        std::int64_t told = 0;
        little.progress = [&](std::int64_t done, std::int64_t total) {
            EXPECT_GE(done, told);
            told = done;
            EXPECT_EQ(total, 5 * 111);
        };
        search_two_stages(queries, corpora, little);
        EXPECT_EQ(told, 5 * 111);
    }
}

TEST_F(TwoStage, WhatDoesNotFitIsNamed) {
    const io::TokenSource queries = collection(2, 3, dim, 1);
    const std::vector<Corpus> plain{corpus("plain", collection(4, 2, dim, 2), {})};
    EXPECT_ERROR(search_two_stages(queries, plain, options(Coarse::int8, 5)), invalid_value, "plain",
                 "coarse form int8");
    const std::vector<Corpus> wide{corpus("wide", collection(4, 2, 24, 2))};
    EXPECT_ERROR(search_two_stages(queries, wide, options(Coarse::int8, 5)), invalid_value, "d = 20", "d = 24");
    const std::vector<Corpus> half{corpus("half", collection(4, 2, dim, 2, DType::f16))};
    EXPECT_ERROR(search_two_stages(queries, half, options(Coarse::bits, 5)), invalid_type, "float32", "float16");
    const std::vector<Corpus> fine{corpus("fine", collection(4, 2, dim, 2))};
    EXPECT_ERROR(search_two_stages(queries, fine, options(Coarse::int8, 0)), invalid_value, "candidates", "0");
    TwoStageOptions little = options(Coarse::int8, 5);
    little.memory = 1000;
    EXPECT_ERROR(search_two_stages(queries, fine, little), out_of_memory, "1000 bytes are too little");
}

TEST_F(TwoStage, NothingIsFoundInNothing) {
    const io::TokenSource queries = collection(0, 3, dim, 1);
    const std::vector<Corpus> some{corpus("some", collection(4, 2, dim, 2))};
    EXPECT_EQ(search_two_stages(queries, some, options(Coarse::int8, 5)).queries(), 0);
    const std::vector<Corpus> none{corpus("none", collection(0, 2, dim, 2))};
    EXPECT_TRUE(search_two_stages(collection(2, 3, dim, 1), none, options(Coarse::int8, 5)).ranked(1).empty());
}

}  // namespace
}  // namespace rowmax::stream
