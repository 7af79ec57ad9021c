// Values, colours and sizes of heat maps; the pixels are tested through the command.
#include "cli/explain/heat_map.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/exit_code.hpp"
#include "cli/explain/token_text.hpp"
#include "support/throws.hpp"

namespace rowmax::cli::explain {
namespace {

// Two query tokens, the second hidden; three document tokens, the last hidden.
Explanation small_pair() {
    Explanation pair;
    pair.document_id = "page";
    pair.query_tokens = {"q0", "q1"};
    pair.query_kept = {true, false};
    pair.document_kept = {true, true, false};
    pair.winner = {1, -1};
    pair.similarity = {4, 0};
    pair.matrix = {3, 4, 9, 1, 2, 9};
    return pair;
}

TEST(TokenMap, LeavesOutWhatMasksHide) {
    const HeatMap map = token_map(small_pair());
    EXPECT_EQ(map.rows, 2);
    EXPECT_EQ(map.columns, 3);
    EXPECT_EQ(map.values[0], 3);
    EXPECT_EQ(map.values[1], 4);
    for (const int hidden : {2, 3, 4, 5})
        EXPECT_TRUE(std::isnan(map.values[static_cast<std::size_t>(hidden)])) << hidden;
    EXPECT_EQ(map.marked, (std::vector<bool>{false, true, false, false, false, false}));
}

TEST(GridMap, SumsKeptQueryTokens) {
    const HeatMap map = grid_map(small_pair(), {2, 1, 0}, {});
    EXPECT_EQ(map.values, (std::vector<double>{3, 4}));
    EXPECT_EQ(grid_map(small_pair(), {1, 1, 1}, 1).values, std::vector<double>{2});
    EXPECT_ERROR(grid_map(small_pair(), {2, 2, 0}, {}), data, "2x2", "4", "page", "3");
    EXPECT_ERROR(grid_map(small_pair(), {1, 1, 0}, 2), data, "--query-token 2");
}

TEST(Grid, IsRowsTimesColumns) {
    const Grid grid = parse_grid("3x14");
    EXPECT_EQ(grid.rows, 3);
    EXPECT_EQ(grid.columns, 14);
    for (const char* wrong : {"", "3", "x", "3x", "x4", "0x4", "3x-4", "3x4x5", "3 x4", "70000x1"})
        EXPECT_THROW(parse_grid(wrong), UsageError) << wrong;
}

TEST(Colours, GetLighterAllTheWay) {
    double before = -1;
    for (int i = 0; i <= 200; ++i) {
        const Rgb c = colour_of(i / 200.0);
        const double lightness = 0.2126 * c.r + 0.7152 * c.g + 0.0722 * c.b;
        EXPECT_GT(lightness, before) << i;
        before = lightness;
    }
    const Rgb nan = colour_of(std::numeric_limits<double>::quiet_NaN());
    EXPECT_EQ(nan.r, no_colour.r);
}

TEST(Picture, HasALimit) {
    HeatMap map;
    map.rows = map.columns = 1;
    map.values = {0.5};
    EXPECT_EQ(png_of(map, 3).substr(1, 3), "PNG");
    EXPECT_ERROR(png_of(map, 1 << 20), data, "1048576");
    EXPECT_ERROR(png_of(HeatMap{}, 1), data, "0 x 0");
}

TEST(TokenText, IsFitForTerminalsAndPages) {
    EXPECT_EQ(printable("a\tb\x1b[31m"), "a^Ib^[[31m");
    EXPECT_EQ(printable("a\xc2\x9b"
                        "31m\xc2\xa0\xc3\xbc\xc2"),
              "a<9b>31m\xc2\xa0\xc3\xbc\xc2");
    EXPECT_EQ(printable(""), "''");
    EXPECT_EQ(html_escaped("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
}

}  // namespace
}  // namespace rowmax::cli::explain
