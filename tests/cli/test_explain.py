"""rowmax explain: the numbers, the text, the page, and pictures read back pixel by pixel."""

import base64
import io
import json
import re

import numpy as np
import pytest
from command_support import small_integers

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def pair(tmp_path, rng):
    q, d = small_integers(rng, 2, 3, 8), small_integers(rng, 4, 6, 8)
    np.save(tmp_path / "q.npy", q)
    np.save(tmp_path / "d.npy", d)
    return tmp_path, q[1], d[2]


WHICH = ("--query", "1", "--document", "#2")


def explain(rowmax, folder, *options):
    return rowmax("explain", folder / "q.npy", folder / "d.npy", *WHICH, *options)


def test_numbers(rowmax, pair):
    folder, q, d = pair
    found = json.loads(explain(rowmax, folder, "--json", "--matrix").stdout)
    similarity = q @ d.T
    assert found["matrix"] == similarity.tolist()
    assert [token["winner"] for token in found["tokens"]] == similarity.argmax(axis=1).tolist()
    assert [token["similarity"] for token in found["tokens"]] == similarity.max(axis=1).tolist()
    assert found["sum"] == found["score"] == similarity.max(axis=1).sum()
    assert (found["query"], found["document"]) == ("1", "2")


def test_matrix_has_the_bits_of_the_score(rowmax, tmp_path, rng):
    np.save(tmp_path / "q.npy", rng.normal(size=(1, 40, 96)).astype("f4"))
    np.save(tmp_path / "d.npy", rng.normal(size=(1, 77, 96)).astype("f4"))
    done = rowmax("explain", tmp_path / "q.npy", tmp_path / "d.npy", "--normalize", "--json", "--matrix")
    found = json.loads(done.stdout)
    for token in found["tokens"]:
        row = found["matrix"][token["token"]]
        assert token["similarity"] == max(row)
        assert token["winner"] == row.index(max(row))
    assert found["sum"] == pytest.approx(found["score"], rel=1e-6)


def test_text(rowmax, pair):
    folder, q, d = pair
    (folder / "qt").write_text("[CLS]\nred\nca\x1brs\n")
    (folder / "dt").write_text(json.dumps(["a", "b", "c", "d", "é", "f"]))
    done = explain(rowmax, folder, "--query-tokens", folder / "qt", "--doc-tokens", folder / "dt")
    lines = done.stdout.splitlines()
    similarity = q @ d.T
    for text, row, line in zip(["[CLS]", "red", "ca^[rs"], similarity, lines[3:6], strict=True):
        assert line.startswith(text)
        assert f"{row.max():.6f}" in line
        assert line.endswith(f"{row.argmax()}  {'abcdéf'[row.argmax()]}")
    assert lines[6].split() == [
        "sum",
        f"{similarity.max(axis=1).sum():.6f}",
        "=",
        "score",
        f"{similarity.max(axis=1).sum():.6f}",
    ]
    winners = set(similarity.argmax(axis=1))
    assert lines[8].split() == [f"[{c}]" if i in winners else c for i, c in enumerate("abcdéf")]
    assert "\x1b" not in done.stdout


def test_colour_only_when_asked_or_on_a_terminal(rowmax, pair):
    folder, _, _ = pair
    assert "\x1b[" in explain(rowmax, folder, "--color", "always").stdout
    assert "\x1b[" not in explain(rowmax, folder, "--color", "auto").stdout


def test_colour_on_a_terminal(binary, pair):
    import os
    import pty
    import subprocess

    folder, _, _ = pair
    leader, follower = pty.openpty()
    subprocess.run([binary, "explain", folder / "q.npy", folder / "d.npy", *WHICH], stdout=follower, check=True)
    os.close(follower)
    assert b"\x1b[" in os.read(leader, 1 << 16)
    os.close(leader)


def test_page(rowmax, pair):
    folder, q, d = pair
    (folder / "qt").write_text("<script>\n&\nplain\n")
    done = explain(rowmax, folder, "--query-tokens", folder / "qt", "--html", folder / "why.html")
    assert done.stdout == ""
    page = (folder / "why.html").read_text()
    assert "&lt;script&gt;" in page
    assert f"{(q @ d.T).max(axis=1).sum():.6f}" in page
    assert not re.search(r"(src|href)=\"?(http|//|/)", page)
    picture = Image.open(io.BytesIO(base64.b64decode(re.search(r"base64,([^\"]+)", page)[1])))
    assert picture.size == (6 * 32, 3 * 32)


def test_page_says_what_the_picture_shows(rowmax, pair):
    folder, _, _ = pair
    captions = []
    for options in ((), ("--grid", "2x3"), ("--grid", "2x3", "--query-token", "1")):
        explain(rowmax, folder, *options, "--html", folder / "why.html")
        captions.append(re.search(r"Similarities</h2>\n<p>(.*)</p>", (folder / "why.html").read_text())[1])
    assert captions[0].startswith("Query tokens from top to bottom")
    assert captions[1] == "The document as an image of 2 x 3 patches; sum of the similarities to all query tokens."
    assert captions[2].endswith("similarity to query token 1, &#39;q1&#39;.")


def lightness(pixel):
    """Of the colours used, which rise in lightness from low to high."""
    r, g, b = (int(c) for c in pixel[:3])
    return 2126 * r + 7152 * g + 722 * b


def cells(path, rows, columns, cell):
    """Lightness at the centre of every cell."""
    image = np.asarray(Image.open(path).convert("RGB"))
    assert image.shape == (rows * cell, columns * cell, 3)
    return np.array(
        [[lightness(image[r * cell + cell // 2, c * cell + cell // 2]) for c in range(columns)] for r in range(rows)]
    )


def assert_same_order(shades, values):
    """Equal values have equal shades, larger values lighter ones."""
    assert (
        np.sign(np.subtract.outer(shades.ravel(), shades.ravel()))
        == np.sign(np.subtract.outer(values.ravel(), values.ravel()))
    ).all()


def test_heat_map_of_tokens(rowmax, pair):
    folder, q, d = pair
    explain(rowmax, folder, "--png", folder / "map.png", "--cell", 8)
    similarity = q @ d.T
    assert_same_order(cells(folder / "map.png", 3, 6, 8), similarity)
    image = np.asarray(Image.open(folder / "map.png").convert("RGB"))
    framed = (image[::8, ::8] == 255).all(axis=2)
    assert (framed == (np.arange(6) == similarity.argmax(axis=1)[:, None])).all()


@pytest.fixture
def patches(tmp_path):
    """A page of 2 x 3 patches whose similarities to query token s are all different: s * 10 + patch, no symmetry."""
    values = np.array([[0, 3, 1, 5, 2, 9], [7, 1, 0, 2, 12, 4]], "f4")
    np.save(tmp_path / "q.npy", np.eye(2, dtype="f4")[None])
    document = np.concatenate([[[50, -50]], values.T, [[-70, 70]]]).astype("f4")  # a special token before and after
    np.save(tmp_path / "d.npy", np.ascontiguousarray(document)[None])
    return tmp_path, values.reshape(2, 2, 3)


@pytest.mark.parametrize("token", [0, 1, None])
def test_grid(rowmax, patches, token):
    folder, values = patches
    options = () if token is None else ("--query-token", token)
    files = (folder / "q.npy", folder / "d.npy")
    rowmax("explain", *files, "--grid", "2x3", "--grid-first", 1, *options, "--png", folder / "map.png", "--cell", 5)
    want = values.sum(axis=0) if token is None else values[token]
    assert_same_order(cells(folder / "map.png", 2, 3, 5), want)


def test_grid_puts_the_first_token_at_the_top_left(rowmax, tmp_path):
    np.save(tmp_path / "q.npy", np.ones((1, 1, 1), "f4"))
    np.save(tmp_path / "d.npy", np.array([[9], [0], [0], [0], [0], [0]], "f4"))
    rowmax(
        "explain", tmp_path / "q.npy", tmp_path / "d.npy", "--grid", "2x3", "--png", tmp_path / "map.png", "--cell", 1
    )
    image = np.asarray(Image.open(tmp_path / "map.png").convert("RGB"))
    assert image.shape == (2, 3, 3)
    bright = image.sum(axis=2)
    assert bright[0, 0] > bright.ravel()[1:].max()


def test_hidden_and_nan_are_grey(rowmax, tmp_path):
    tokens = np.array([[[1, 0], [np.nan, 0], [3, 0]]], "f4")
    np.savez(tmp_path / "d.npz", tokens=tokens, mask=np.array([[True, True, False]]))
    np.save(tmp_path / "q.npy", np.array([[[1, 0]]], "f4"))
    done = rowmax(
        "explain", tmp_path / "q.npy", tmp_path / "d.npz", "--png", tmp_path / "map.png", "--cell", 1, "-o", "-"
    )
    pixels = np.asarray(Image.open(tmp_path / "map.png").convert("RGB"))[0]
    assert pixels[1].tolist() == pixels[2].tolist() == [128, 128, 128]
    assert pixels[0].tolist() != [128, 128, 128]
    assert "nan" in done.stdout


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--document", "9"), 3, "no document '9' among its 4"),
        (("--query", "#2"), 3, "no query '#2' among its 2"),
        (("--grid", "4", "--png", "x.png"), 2, "--grid '4'"),
        (("--grid", "4x4", "--png", "x.png"), 3, "needs 16 document tokens"),
        (("--grid", "2x3", "--grid-first", str(2**63 - 1), "--png", "x.png"), 3, f"from token {2**63 - 1}"),
        (("--grid", "2x3"), 2, "--grid needs"),
        (("--query-token", "1"), 2, "need --grid"),
        (("--grid", "2x3", "--query-token", "3", "--png", "x.png"), 3, "has 3 tokens"),
        (("--doc-tokens", "tokens.txt"), 3, "2 tokens, but the item has 6"),
        (("--doc-tokens", "tokens.json"), 3, "not a JSON list of strings"),
    ],
)
def test_bad_requests(rowmax, pair, options, code, message):
    folder, _, _ = pair
    (folder / "tokens.txt").write_text("one\ntwo\n")
    (folder / "tokens.json").write_text('["a", 2]')
    before = sorted(path.name for path in folder.iterdir())
    done = rowmax("explain", "q.npy", "d.npy", *options, code=code, cwd=folder)
    assert message in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == before
