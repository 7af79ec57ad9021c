// Columns of text in a terminal, and tables made of them.
#include "cli/columns.hpp"

#include <gtest/gtest.h>

#include "cli/table.hpp"

namespace rowmax::cli {
namespace {

TEST(Columns, OfTextInManyScripts) {
    EXPECT_EQ(columns(""), 0U);
    EXPECT_EQ(columns("ascii"), 5U);
    EXPECT_EQ(columns("gr\u00fc\u00df"), 4U);
    EXPECT_EQ(columns("e\u0301"), 1U) << "a combining accent";
    EXPECT_EQ(columns("\u6771\u4eac"), 4U) << "two ideographs";
    EXPECT_EQ(columns("\ud55c\uae00 \uff21"), 7U) << "Hangul and a fullwidth letter";
    EXPECT_EQ(columns("\U0001f600"), 2U) << "an emoji";
    EXPECT_EQ(columns("\xff\x80"), 1U) << "no UTF-8: anything, but no crash";
}

TEST(Columns, TablesAlignWideText) {
    Table table({"id", "n"});
    table.add({"\u6771\u4eac", "1"});
    table.add({"abcd", "2"});
    EXPECT_EQ(table.text(), "id    n\n\u6771\u4eac  1\nabcd  2\n");
}

}  // namespace
}  // namespace rowmax::cli
