#include <gtest/gtest.h>

#include "io/archive.hpp"
#include "io/builders.hpp"
#include "io/support.hpp"

namespace rowmax::test {
namespace {

using io::Array;

constexpr std::uint64_t cap = std::uint64_t{1} << 20;
const std::string six_floats = raw_list<float>({0, 1, 2, 3, 4, 5});
const std::string tokens = npy("<f4", "(2, 3)", six_floats);

class Npz : public FileTest {
  protected:
    [[nodiscard]] std::unique_ptr<io::Archive> open(const std::string& bytes) const {
        return io::open_npz(write("x.npz", bytes), cap);
    }
    void expect_bad(const std::string& bytes, std::vector<std::string> parts) const {
        const fs::path path = write("bad.npz", bytes);
        parts.push_back(path.string());
        expect_error(ErrorCode::data, parts, [&] {
            const auto archive = io::open_npz(path, cap);
            for (const io::ArrayInfo& info : archive->arrays()) archive->array(info.name, {});
        });
    }
};

TEST_F(Npz, StoredMembersAreReadInPlace) {
    const auto archive = open(zip({{.name = "a.npy", .data = tokens}, {.name = "bb.npy", .data = tokens}}));
    ASSERT_EQ(archive->arrays().size(), 2U);
    const Array a = archive->array("a"), b = archive->array("bb");
    EXPECT_EQ(bytes_of(a.view), six_floats);
    EXPECT_EQ(bytes_of(b.view), six_floats);
    EXPECT_EQ(archive->arrays()[1].name, "bb");
    EXPECT_EQ(archive->arrays()[1].shape, (std::vector<std::int64_t>{2, 3}));
    // Both lie in one mapping, as far apart as their places in the file.
    EXPECT_EQ(static_cast<std::byte*>(b.view.data) - static_cast<std::byte*>(a.view.data),
              static_cast<std::ptrdiff_t>(archive->arrays()[1].offset - archive->arrays()[0].offset));
}

TEST_F(Npz, MisalignedMembersSaySoAndCanBeAligned) {
    const auto archive = open(zip({{.name = "ab.npy", .data = tokens}}));
    const auto odd = open(zip({{.name = "a.npy", .data = tokens}}));
    EXPECT_TRUE(io::is_aligned(archive->array("ab").view));
    const Array array = odd->array("a");
    ASSERT_FALSE(io::is_aligned(array.view));
    const Array fixed = io::aligned(array);
    EXPECT_TRUE(io::is_aligned(fixed.view));
    EXPECT_EQ(bytes_of(fixed.view), six_floats);
}

TEST_F(Npz, DeflatedZip64AndComment) {
    const std::vector<ZipEntry> entries{{.name = "a.npy", .data = tokens, .deflate = true},
                                        {.name = "b.npy", .data = tokens, .zip64 = true},
                                        {.name = "c.npy", .data = tokens, .deflate = true, .zip64 = true}};
    for (const std::string& file : {zip(entries), zip(entries, true), zip(entries, false, "PK\x05\x06 a comment")}) {
        const auto archive = open(file);
        for (const char* name : {"a", "b", "c"}) EXPECT_EQ(bytes_of(archive->array(name).view), six_floats) << name;
        EXPECT_TRUE(archive->arrays()[0].compressed);
        EXPECT_FALSE(archive->arrays()[1].compressed);
    }
}

TEST_F(Npz, LargeDeflatedMember) {
    const std::string data(1 << 19, '\7');
    const auto archive = open(zip({{.name = "a.npy", .data = npy("|u1", "(524288,)", data), .deflate = true}}));
    EXPECT_EQ(bytes_of(archive->array("a").view), data);
    EXPECT_LT(archive->arrays()[0].bytes, 2000U);
}

TEST_F(Npz, NamesAndStrings) {
    const auto archive = open(zip({{.name = "ids.npy", .data = npy("<i8", "(2,)", raw_list<std::int64_t>({3, 4}))},
                                   {.name = "objects.npy", .data = npy("|O", "(2,)", "pickle")}}));
    EXPECT_EQ(archive->strings("ids"), (std::vector<std::string>{"3", "4"}));
    EXPECT_NE(archive->find("objects"), nullptr);  // one bad member does not spoil the rest
    expect_error(ErrorCode::data, {"objects", "|O"}, [&] { archive->array("objects"); });
    expect_error(ErrorCode::data, {"x.npz", "nothing"}, [&] { archive->array("nothing"); });
}

TEST_F(Npz, Lies) {
    const ZipEntry good{.name = "a.npy", .data = tokens, .deflate = true};
    ZipEntry bad = good;
    bad.crc_error = 1;
    expect_bad(zip({bad}), {"a.npy", "CRC-32"});
    bad.deflate = !bad.deflate;
    expect_bad(zip({bad}), {"a.npy", "CRC-32"});
    bad = good;
    bad.announced_size = tokens.size() + 1;
    expect_bad(zip({bad}), {"a.npy", "needs 24 bytes, but 25"});
    bad.announced_size = tokens.size() - 1;
    expect_bad(zip({bad}), {"a.npy"});
    bad.announced_size = 3;
    expect_bad(zip({bad}), {"a.npy", "3 bytes"});
    bad.announced_size = 0;
    expect_bad(zip({bad}), {"a.npy", "0 bytes"});
    bad.announced_size = 1U << 30;
    expect_bad(zip({bad}), {"a.npy", "1073741824", "cannot come out"});
    bad.zip64 = true;
    bad.announced_size = std::uint64_t{1} << 63;
    expect_bad(zip({bad}), {"a.npy", "9223372036854775808"});
    bad = good;
    bad.flags = 1;
    expect_bad(zip({bad}), {"a.npy", "encrypted"});
    bad = good;
    bad.method = 14;
    expect_bad(zip({bad}), {"a.npy", "method: 14"});
    bad = good;
    bad.method = 0;  // says stored, but is not
    expect_bad(zip({bad}), {"a.npy", "size"});
    expect_bad(zip({good, good}), {"a.npy", "twice"});
    expect_bad(zip({{.name = "readme.txt", .data = "hello"}}), {"readme.txt", "npy"});
}

TEST_F(Npz, CapOnInflatedMembers) {
    const std::string zeros = npy("|u1", "(2097152,)", std::string(2 << 20, '\0'));
    expect_bad(zip({{.name = "a.npy", .data = zeros, .deflate = true}}), {"a.npy", "at most 1048576"});
}

TEST_F(Npz, DirectoryThatLies) {
    const std::string good = zip({{.name = "a.npy", .data = tokens}});
    const std::size_t end = good.size() - 22;
    const auto with = [&](std::size_t place, const std::string& bytes) {
        std::string bad = good;
        return bad.replace(place, bytes.size(), bytes);
    };
    expect_bad(with(end + 10, raw(std::uint16_t{2})), {"2 entries"});
    expect_bad(with(end + 10, raw(std::uint16_t{0})), {"0 entries"});
    expect_bad(with(end + 12, raw(std::uint32_t{0x7fffffff})), {"2147483647 bytes"});
    expect_bad(with(end + 16, raw(std::uint32_t{0x7fffffff})), {"offset 2147483647"});
    expect_bad(with(end + 16, raw(std::uint32_t{0xffffffff})), {"zip64"});
    expect_bad(with(end + 20, raw(std::uint16_t{1})), {"end-of-central-directory"});
    const std::size_t entry = good.find("PK\x01\x02");
    expect_bad(with(entry + 42, raw(std::uint32_t{7})), {"a.npy", "local header"});
    expect_bad(with(entry + 20, raw(std::uint32_t{0x7fffffff})), {"a.npy", "2147483647"});
    expect_bad(with(entry + 24, raw(std::uint32_t{0x7fffffff})), {"a.npy", "2147483647"});
    expect_bad(with(entry + 24, raw(std::uint32_t{0xffffffff})), {"a.npy", "zip64"});
    expect_bad(with(entry + 28, raw(std::uint16_t{0xffff})), {"entry"});
    expect_bad(with(30, "b"), {"local header", "name"});
    expect_bad(with(28, raw(std::uint16_t{0xffff})), {"local header"});
}

TEST_F(Npz, DamageIsAnErrorOrRightData) {
    for (const bool deflate : {false, true}) {
        const std::string file = zip({{.name = "a.npy", .data = tokens, .deflate = deflate, .zip64 = true}}, true);
        accepted_when_damaged(file, file.size(), [&](const std::string& damaged) {
            const auto archive = open(damaged);
            for (const io::ArrayInfo& info : archive->arrays()) {
                const std::string bytes = bytes_of(archive->array(info.name).view);
                if (deflate) {
                    EXPECT_EQ(bytes, six_floats);  // the CRC lets nothing else through
                }
            }
        });
    }
}

}  // namespace
}  // namespace rowmax::test
