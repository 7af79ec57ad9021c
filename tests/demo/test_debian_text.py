"""Records of apt's indexes, the choice of packages and the known-item pairs."""

from dataclasses import replace

from debian_text import Package, long_texts, packages, parse_stanzas, sample, split_description, without_synopsis
from known_item import known_items, write_qrels

AVAILABLE = """\
Package: fdupes
Section: utils
Depends: libc6 (>= 2.34), tmux | screen
Description: identifies duplicate files
Description-md5: aa11

Package: local
Section: contrib/utils
Description: a record with its long text in place
 First line of a paragraph,
 second line: with a colon.
 .
  * an indented item
 .
 Last paragraph.
Homepage: https://example.org/a:b

stray text without a colon
 continuation of a stray line
Package: odd
Package: twice
Source: odd-source (1.2)
Description: no long text anywhere
Description-md5: ffff
"""

TRANSLATION = """\
Package: fdupes
Description-md5: aa11
Description-en: identifies duplicate files
 FDupes finds files that are the same.
"""

LONG = "Compares sizes and checksums, then every byte, and lists or deletes what is there more than once. " * 2


def stanzas(text):
    return list(parse_stanzas(text.splitlines()))


def joined():
    return list(packages(parse_stanzas(AVAILABLE.splitlines()), long_texts(parse_stanzas(TRANSLATION.splitlines()))))


def package(name, synopsis="finds things that repeat", text=LONG, section="utils", relations=""):
    return Package(name, section, synopsis, text, relations)


def names(chosen):
    return [p.name for p in chosen]


def test_a_continuation_line_belongs_to_the_field_above_it():
    local = stanzas(AVAILABLE)[1]
    assert local["Description"].split("\n")[1] == " First line of a paragraph,"
    assert local["Homepage"] == "https://example.org/a:b"


def test_stray_lines_are_skipped_and_the_first_of_two_fields_is_kept():
    odd = stanzas(AVAILABLE)[2]
    assert odd["Package"] == "odd"
    assert not any("stray" in value for value in odd.values())


def test_no_final_blank_line_is_needed_and_many_are_harmless():
    assert stanzas("Package: a\n\n\n \nPackage: b") == [{"Package": "a"}, {"Package": "b"}]
    assert stanzas("") == stanzas("\n\n") == []


def test_paragraphs_become_lines():
    synopsis, text = split_description(stanzas(AVAILABLE)[1]["Description"])
    assert synopsis == "a record with its long text in place"
    first = "First line of a paragraph, second line: with a colon."
    assert text.split("\n") == [first, "* an indented item", "Last paragraph."]


def test_a_synopsis_alone_has_no_text():
    assert split_description("just a synopsis") == ("just a synopsis", "")


def test_long_texts_are_joined_by_their_checksum():
    (source, fdupes), _ = joined()
    assert (source, fdupes.synopsis) == ("fdupes", "identifies duplicate files")
    assert fdupes.text == "FDupes finds files that are the same."


def test_a_record_without_long_text_is_left_out_and_sections_lose_their_area():
    assert [(p.name, p.section) for _, p in joined()] == [("fdupes", "utils"), ("local", "utils")]


def test_sample_leaves_out_libraries_siblings_and_empty_packages():
    unwanted = [package("libfoo1"), package("foo-dev"), package("foo-doc"), package("p", section="perl"),
                package("s", text="short"), package("t", text="This is a transitional package. " + LONG)]
    assert names(sample([(p.name, p) for p in [*unwanted, package("wanted")]], 9)) == ["wanted"]


def test_sample_takes_one_package_of_a_source_the_one_named_like_it():
    family = [package("foo-cli", "one"), package("foo", "two"), package("foo-gtk", "three")]
    assert names(sample([("foo", p) for p in family], 9)) == ["foo"]


def test_sample_takes_no_two_with_one_synopsis_or_one_text():
    same_synopsis = [package("a", text=LONG + "x"), package("b", text=LONG + "y")]
    same_text = [package("c", "first"), package("d", "second")]
    assert len(sample([(p.name, p) for p in same_synopsis], 9)) == 1
    assert len(sample([(p.name, p) for p in same_text], 9)) == 1


def test_sample_begins_with_what_others_mention_and_does_not_depend_on_the_order():
    all_ = [package(n, f"synopsis of {n}", f"{n} {LONG}") for n in ("aa", "bb", "cc", "dd", "ee", "ff", "gg")]
    all_[0] = replace(all_[0], relations="xx | ff (>= 1), dd")
    all_[1] = replace(all_[1], relations="ff")
    pairs = [(p.name, p) for p in all_]
    assert names(sample(pairs, 2)) == ["ff", "dd"]
    assert sample(pairs, 5) == sample(pairs[::-1], 5) == sample(pairs, 8)[:5]


def test_a_copied_synopsis_is_stripped_however_it_is_broken_or_written():
    copied = package("a", "Finds (some) things.", "This tool FINDS\n(some)  things, and more. It finds some things.")
    assert without_synopsis(copied) == "This tool , and more. It finds some things"


def test_known_items_need_a_synopsis_of_three_words():
    chosen = [package("a", "text editor"), package("b", "another text editor"), package("c", "a third text editor")]
    assert sorted(names(known_items(chosen, 9))) == ["b", "c"]
    assert known_items(chosen, 1) == known_items(chosen[::-1], 1)


def test_qrels_name_each_item_as_its_own_answer(tmp_path):
    write_qrels(tmp_path / "qrels", [package("a"), package("g++")])
    assert (tmp_path / "qrels").read_text() == "a 0 a 1\ng++ 0 g++ 1\n"
