"""rowmax eval agrees with trec_eval (through pytrec_eval)."""

import json
import random

import pytest

pytrec_eval = pytest.importorskip("pytrec_eval")

MEASURES = {
    "map", "recip_rank", "ndcg", "ndcg_cut_1", "ndcg_cut_10", "recall_5", "recall_100", "success_1", "success_5",
    "P_5", "P_10", "map_cut_10",
}  # fmt: skip
PYTREC_NAMES = {"map", "recip_rank", "ndcg", "ndcg_cut.1,10", "recall.5,100", "success.1,5", "P.5,10", "map_cut.10"}


def random_evaluation(rng):
    """Ties, missing queries, unjudged documents, negative relevances, scores that differ beyond float32.

    No relevance below -1: trec_eval's tables have no place for it, and pytrec_eval crashes."""
    documents = [f"d{i}" for i in range(40)]
    qrels, run = {}, {}
    for i in range(12):
        if rng.random() < 0.9:
            judged = rng.sample(documents, rng.randint(1, 15))
            qrels[f"q{i}"] = {d: rng.choice([-1, -1, 0, 0, 1, 1, 2, 3]) for d in judged}
        if rng.random() < 0.9:
            scores = rng.choice(
                [lambda: rng.gauss(0, 1), lambda: rng.randint(0, 4), lambda: 1 + rng.randint(0, 9) * 1e-9]
            )
            run[f"q{i}"] = {d: float(scores()) for d in rng.sample(documents, rng.randint(1, 35))}
    return qrels, run


def write(folder, qrels, run, rng):
    lines = [f"{q} 0 {d} {r}\n" for q, judged in qrels.items() for d, r in judged.items()]
    (folder / "qrels").write_text("".join(lines))
    lines = [f"{q}\tQ0 {d} {rng.randint(1, 99)}  {s!r} tag\n" for q, scored in run.items() for d, s in scored.items()]
    rng.shuffle(lines)
    (folder / "run").write_text("\n".join(lines))


def evaluate(rowmax, folder, *options):
    done = rowmax("eval", folder / "qrels", folder / "run", "-m", ",".join(MEASURES), "-q", "--json", *options)
    return json.loads(done.stdout)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_pytrec_eval(rowmax, tmp_path, seed, level):
    rng = random.Random(seed)
    qrels, run = random_evaluation(rng)
    write(tmp_path, qrels, run, rng)
    mine = evaluate(rowmax, tmp_path, "--relevance-level", str(level))
    theirs = pytrec_eval.RelevanceEvaluator(qrels, PYTREC_NAMES, relevance_level=level).evaluate(run)
    assert mine["queries"].keys() == theirs.keys()
    assert mine["num_q"] == len(theirs)
    for query, values in theirs.items():
        for name in MEASURES:
            assert mine["queries"][query][name] == pytest.approx(values[name], abs=1e-6), (query, name)
    for name in MEASURES:
        mean = pytrec_eval.compute_aggregated_measure(name, [values[name] for values in theirs.values()])
        assert mine["mean"][name] == pytest.approx(mean, abs=1e-6)


def test_text_agrees_to_1e_6(rowmax, tmp_path):
    rng = random.Random(99)
    qrels, run = random_evaluation(rng)
    write(tmp_path, qrels, run, rng)
    exact = evaluate(rowmax, tmp_path)["mean"]
    lines = rowmax("eval", tmp_path / "qrels", tmp_path / "run", "-m", "map,nDCG@10,MRR").stdout.splitlines()
    shown = {line.split("\t")[0].strip(): float(line.split("\t")[2]) for line in lines}
    assert shown["map"] == pytest.approx(exact["map"], abs=1e-6)
    assert shown["ndcg_cut_10"] == pytest.approx(exact["ndcg_cut_10"], abs=1e-6)
    assert shown["recip_rank"] == pytest.approx(exact["recip_rank"], abs=1e-6)


def test_complete_counts_missing_queries_as_zero(rowmax, tmp_path):
    (tmp_path / "qrels").write_text("a 0 d1 1\nb 0 d1 1\n")
    (tmp_path / "run").write_text("a Q0 d1 1 2.5 t\nc Q0 d1 1 2.5 t\n")
    done = rowmax("eval", tmp_path / "qrels", tmp_path / "run", "-m", "map", "--json")
    assert json.loads(done.stdout)["mean"]["map"] == 1
    assert "1 judged queries are not in the run" in done.stderr
    assert "1 queries of the run have no judgments" in done.stderr
    done = rowmax("eval", tmp_path / "qrels", tmp_path / "run", "-m", "map", "--json", "--complete")
    assert json.loads(done.stdout)["mean"]["map"] == 0.5


def test_negative_relevance_is_not_relevant(rowmax, tmp_path):
    (tmp_path / "qrels").write_text("a 0 d1 -2\na 0 d2 1\n")
    (tmp_path / "run").write_text("a Q0 d1 1 3 t\na Q0 d2 2 2 t\n")
    done = rowmax("eval", tmp_path / "qrels", tmp_path / "run", "-m", "ndcg,map,P@2", "--json")
    assert json.loads(done.stdout)["mean"] == {"ndcg": pytest.approx(0.6309297535714575), "map": 0.5, "P_2": 0.5}


def test_mrr_at_a_cut(rowmax, tmp_path):
    (tmp_path / "qrels").write_text("a 0 d3 1\n")
    (tmp_path / "run").write_text("".join(f"a Q0 d{i} {i} {10 - i} t\n" for i in range(1, 6)))
    done = rowmax("eval", tmp_path / "qrels", tmp_path / "run", "-m", "mrr@2,mrr@3", "--json")
    assert json.loads(done.stdout)["mean"] == {"recip_rank_2": 0, "recip_rank_3": pytest.approx(1 / 3)}


@pytest.mark.parametrize(
    ("qrels", "run", "message"),
    [
        ("a 0 d1 x\n", "a Q0 d1 1 2 t\n", "qrels"),
        ("a 0 d1 1\n", "a Q0 d1 1 high t\n", "run"),
        ("a 0 d1 1\n", "a Q0 d1 1 2\n", "run"),
        ("a 0 d1 1\n", "a Q0 d1 1 2 t\na Q0 d1 2 1 t\n", "d1"),
        ("a 0 d1 1\n", "b Q0 d1 1 2 t\n", "share no query"),
    ],
)
def test_bad_files_are_data_errors(rowmax, tmp_path, qrels, run, message):
    (tmp_path / "qrels").write_text(qrels)
    (tmp_path / "run").write_text(run)
    done = rowmax("eval", tmp_path / "qrels", tmp_path / "run", code=3)
    assert message in done.stderr
    assert done.stdout == ""


def test_missing_file_and_unknown_measure(rowmax, tmp_path):
    (tmp_path / "qrels").write_text("a 0 d1 1\n")
    done = rowmax("eval", tmp_path / "qrels", tmp_path / "nowhere", code=3)
    assert "nowhere" in done.stderr
    done = rowmax("eval", tmp_path / "qrels", tmp_path / "qrels", "-m", "accuracy", code=2)
    assert "'accuracy' is not a measure" in done.stderr
