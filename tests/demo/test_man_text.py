"""Manual pages as texts."""

import gzip

from man_text import pages, parse_page, plain

PAGE = r"""'\" t
.TH FDUPES 1 "2020"
.SH NAME
fdupes \- finds duplicate files
.SH SYNOPSIS
.B fdupes
[ options ]
.SH "DESCRIPTION"
Searches the given path for \fIduplicate\fR files.
.PP
.BR rm (1)
is not needed; a back\e slash and 5\-10 minutes\&.
.\" a comment
.SH OPTIONS
.TP
-r recurse
"""


def test_a_page_gives_its_name_line_and_description():
    page = parse_page(PAGE)
    assert (page.name, page.synopsis) == ("fdupes", "finds duplicate files")
    assert page.text == "Searches the given path for duplicate files. rm (1) is not needed; a back\\ slash and 5-10 minutes."


def test_aliases_and_pages_without_description_are_none():
    assert parse_page(".so man1/other.1\n") is None
    assert parse_page(".SH NAME\nx \\- y\n") is None
    assert parse_page("") is None


def test_requests_print_nothing():
    assert plain(".PP") == plain("'br") == plain('.\\" comment') == ""


def test_pages_are_found_packed_or_not_and_links_are_passed_over(tmp_path):
    (tmp_path / "man1").mkdir()
    (tmp_path / "man1" / "a.1").write_text(PAGE.replace("fdupes", "aaa"))
    with gzip.open(tmp_path / "man1" / "b.1.gz", "wt") as file:
        file.write(PAGE.replace("fdupes", "bbb"))
    (tmp_path / "man1" / "c.1").symlink_to("a.1")
    assert [name for name, _ in pages(tmp_path)] == ["aaa", "bbb"]
