// Ids, rankings, TREC files.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "io/ids.hpp"
#include "io/ranking.hpp"
#include "io/support.hpp"
#include "io/trec.hpp"

namespace rowmax::test {
namespace {

class Text : public FileTest {
  protected:
    std::string ranking(io::RankingFormat format, const std::vector<io::RankedHit>& hits,
                        DType type = DType::f32) const {
        io::OutputFile out(at("run"));
        io::RankingWriter writer(out, format, type, "tag");
        writer.write("q1", hits);
        writer.write("q2", {});
        out.commit();
        return contents(at("run"));
    }
    void expect_bad_run(const std::string& text, std::vector<std::string> parts) const {
        parts.emplace_back("bad.run");
        expect_error(ErrorCode::data, parts, [&] { io::read_run(write("bad.run", text)); });
    }
};

TEST_F(Text, IdsThatCount) {
    for (const char* id : {"a", "doc-1", "é", "漢字", "😀", "http://x.y/z?q=1", "\"quoted\"", "~"})
        io::check_id(id, "x");
    const std::pair<std::string, std::string> bad[] = {{"", "empty"},
                                                       {"a b", "white space"},
                                                       {"a\t", "0x09"},
                                                       {"a\nb", "0x0a"},
                                                       {"\x7f", "0x7f"},
                                                       {"\x1b[0m", "\\x1b"},
                                                       {"\xff", "UTF-8"},
                                                       {"\xc0\x80", "UTF-8"},
                                                       {"\xed\xa0\x80", "UTF-8"},
                                                       {"\xf4\x90\x80\x80", "UTF-8"},
                                                       {"\xe2\x82", "UTF-8"},
                                                       {std::string(4097, 'a'), "4097"},
                                                       {std::string("a\0b", 3), "0x00"},
                                                       {"\xe0\x80\x80", "UTF-8"},
                                                       {"\xf0\x80\x80\x80", "UTF-8"},
                                                       {"\x80", "UTF-8"}};
    for (const auto& [id, part] : bad) {
        expect_error(ErrorCode::data, {"file:3", part}, [&id = id] { io::check_id(id, "file:3"); });
    }
}

TEST_F(Text, ScoresReadBackExactly) {
    EXPECT_EQ(io::score_text(0.1F, true), "0.1");
    EXPECT_EQ(io::score_text(0.1F, false), "0.10000000149011612");
    EXPECT_EQ(io::score_text(3, true), "3");
    EXPECT_EQ(io::score_text(-std::numeric_limits<double>::quiet_NaN(), true), "nan");
    EXPECT_EQ(io::score_text(std::numeric_limits<double>::infinity(), true), "inf");
    EXPECT_EQ(io::score_text(-std::numeric_limits<double>::infinity(), false), "-inf");
    std::mt19937_64 random(3);
    for (int i = 0; i < 100'000; ++i) {
        const auto bits = random();
        const auto narrow = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
        const auto wide = std::bit_cast<double>(bits);
        if (std::isfinite(narrow)) {
            ASSERT_EQ(std::stof("0x0p0") + std::strtof(io::score_text(narrow, true).c_str(), nullptr), narrow);
        }
        if (std::isfinite(wide)) {
            ASSERT_EQ(std::strtod(io::score_text(wide, false).c_str(), nullptr), wide);
        }
    }
}

TEST_F(Text, Formats) {
    const std::vector<io::RankedHit> hits{{"d1", 2.5}, {"é\"", 0.1F}};
    EXPECT_EQ(ranking(io::RankingFormat::trec, hits), "q1 Q0 d1 1 2.5 tag\nq1 Q0 é\" 2 0.1 tag\n");
    EXPECT_EQ(ranking(io::RankingFormat::tsv, hits), "q1\td1\t1\t2.5\nq1\té\"\t2\t0.1\n");
    EXPECT_EQ(ranking(io::RankingFormat::jsonl, hits),
              "{\"query\": \"q1\", \"hits\": [{\"doc\": \"d1\", \"rank\": 1, \"score\": 2.5}, "
              "{\"doc\": \"é\\\"\", \"rank\": 2, \"score\": 0.1}]}\n{\"query\": \"q2\", \"hits\": []}\n");
}

TEST_F(Text, JsonStaysJsonWithoutNumbers) {
    const double inf = std::numeric_limits<double>::infinity();
    const std::string text =
        ranking(io::RankingFormat::jsonl, {{"a", std::nan("")}, {"b", inf}, {"c", -inf}, {"d", 1e300}}, DType::f64);
    const auto json = nlohmann::json::parse(text.substr(0, text.find('\n')));
    EXPECT_EQ(json["hits"][0]["score"], "NaN");
    EXPECT_EQ(json["hits"][1]["score"], "Infinity");
    EXPECT_EQ(json["hits"][2]["score"], "-Infinity");
    EXPECT_EQ(json["hits"][3]["score"], 1e300);
}

TEST_F(Text, WriterRefusesColumnsThatWouldShift) {
    io::OutputFile out(at("run"));
    expect_error(ErrorCode::data, {"tag"},
                 [&] { io::RankingWriter(out, io::RankingFormat::trec, DType::f32, "my tag"); });
    io::RankingWriter writer(out, io::RankingFormat::trec, DType::f32);
    const std::vector<io::RankedHit> hits{{"d 1", 2.5}};
    expect_error(ErrorCode::data, {"d 1"}, [&] { writer.write("q", hits); });
    expect_error(ErrorCode::data, {"query"}, [&] { writer.write("", {}); });
}

TEST_F(Text, RunsReadWhatWasWritten) {
    ranking(io::RankingFormat::trec,
            {{"d1", 2.5}, {"d2", std::nan("")}, {"d3", -std::numeric_limits<double>::infinity()}});
    const auto run = io::read_run(at("run"));
    ASSERT_EQ(run.size(), 1U);
    ASSERT_EQ(run[0].entries.size(), 3U);
    EXPECT_EQ(run[0].entries[0].score, 2.5);
    EXPECT_TRUE(std::isnan(run[0].entries[1].score));
    EXPECT_TRUE(std::isinf(run[0].entries[2].score));
}

TEST_F(Text, RunsAreReadAsTheyCome) {
    const auto run = io::read_run(write("r", "q2 Q0\td1  1   +2.5e0 t\r\n\n  q1\tQ0 d1 7 -1 t \nq2 0 d2 -1 3 t"));
    ASSERT_EQ(run.size(), 2U);
    EXPECT_EQ(run[0].query, "q2");
    ASSERT_EQ(run[0].entries.size(), 2U);
    EXPECT_EQ(run[0].entries[0].score, 2.5);
    EXPECT_EQ(run[0].entries[1].doc, "d2");
    EXPECT_EQ(run[1].entries[0].rank, 7);
    EXPECT_TRUE(io::read_run(write("r", "")).empty());
}

TEST_F(Text, RunsThatAreWrong) {
    expect_bad_run("q Q0 d 1 2 t\nq Q0 e 2 1\n", {":2", "5 columns", "6"});
    expect_bad_run("q Q0 d 1 2 t x\n", {":1", "7 columns"});
    expect_bad_run("q Q0 d 1 high t\n", {":1", "score", "high"});
    expect_bad_run("q Q0 d one 2 t\n", {":1", "rank", "one"});
    expect_bad_run("q Q0 d 1 2x t\n", {"score", "2x"});
    expect_bad_run("q Q0 d 99999999999999999999 2 t\n", {"rank"});
    expect_bad_run("q Q0 d 1 2 t\n\nq Q0 d 2 1 t\n", {":3", "'d'", "'q'", "twice"});
    expect_bad_run("\x1b[2J\n", {":1", "\\x1b"});
}

TEST_F(Text, PipesAreReadToTheirEnd) {
    ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
    std::string lines;
    for (int i = 0; i < 20'000; ++i) lines += fmt::format("q{} 0 d 1\n", i);
    std::thread writer([&] { std::ofstream(at("pipe")) << lines; });
    EXPECT_EQ(io::read_qrels(at("pipe")).size(), 20'000U);
    writer.join();
    expect_error(ErrorCode::io, {folder_.string(), "directory"}, [&] { io::read_qrels(folder_); });
}

TEST_F(Text, AByteOrderMarkIsNoPartOfTheText) {
    const std::string mark = "\xef\xbb\xbf";
    EXPECT_EQ(io::read_id_file(write("ids", mark + "a\nb\n")), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(io::read_qrels(write("q", mark + "1 0 a 2\n"))[0].query, "1");
    EXPECT_EQ(io::read_run(write("r", mark + "1 Q0 a 1 2 t\n"))[0].query, "1");
    EXPECT_TRUE(io::read_id_file(write("empty", mark)).empty());
}

TEST_F(Text, Qrels) {
    const auto qrels = io::read_qrels(write("q", "1 0 a 2\n1\t0\tb\t0\n2 Q0 a -1\n"));
    ASSERT_EQ(qrels.size(), 2U);
    EXPECT_EQ(qrels[0].judgments[0].relevance, 2);
    EXPECT_EQ(qrels[1].judgments[0].relevance, -1);
    expect_error(ErrorCode::data, {"q:1", "relevance", "0.5"}, [&] { io::read_qrels(write("q", "1 0 a 0.5\n")); });
    expect_error(ErrorCode::data, {"q:2", "twice"}, [&] { io::read_qrels(write("q", "1 0 a 1\n1 0 a 1\n")); });
    expect_error(ErrorCode::io, {"none"}, [&] { io::read_qrels(at("none")); });
}

}  // namespace
}  // namespace rowmax::test
