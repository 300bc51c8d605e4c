"""BM25 over generated documents: time to build, to load, queries a second, mapped and in memory.

Writes a corpus of the generated world (provinces of 38 documents), builds its index, then asks the
same queries of an index that is mapped and of one that is loaded, in turns, each in a process of
its own so that its memory can be read. The queries find single facts, as the questions need them.

    python benchmarks/search.py [--documents 100000] [--queries 300] [--rounds 3] [--folder F]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shared import Options

from rods.envs.search.atlas import BY_NAME, make_atlas
from rods.envs.search.index import Bm25Index

SEED = 7


def write_corpus(path: Path, count: int) -> list[str]:
    """Documents of as many provinces as needed; returns queries, spread over all of them."""
    small = make_atlas(1, SEED)
    atlas = make_atlas(-(-count // len(small.documents)), SEED)
    with path.open("w", encoding="utf-8") as out:
        for document in atlas.documents[:count]:
            out.write(json.dumps(document._asdict()) + "\n")
    return [
        f"{subject} {BY_NAME[relation].query}"
        for province in atlas.provinces
        for subject, relation in list(province.facts)[:3]
    ]


def own_memory() -> float:
    """MiB of memory that belongs to this process alone; mapped files are not in it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def asked(corpus: Path, queries: list[str], mapped: bool) -> dict[str, float]:
    """Load an index and ask it; run in a process of its own."""
    before, began = own_memory(), time.perf_counter()
    index = Bm25Index.of_file(corpus, mapped=mapped)
    loaded = time.perf_counter()
    each: list[float] = []
    for query in queries:
        start = time.perf_counter()
        index.search(query, 3)
        each.append(time.perf_counter() - start)
    wall, each = time.perf_counter() - loaded, sorted(each)
    return {
        "load_s": loaded - began,
        "queries_per_s": len(queries) / wall,
        "p50_ms": 1e3 * each[len(each) // 2],
        "p99_ms": 1e3 * each[int(len(each) * 0.99)],
        "own_mib_more": own_memory() - before,
    }


def child(corpus: Path, queries: Path, mapped: bool) -> dict[str, float]:
    command = [sys.executable, __file__, "--ask", str(corpus), str(queries), str(int(mapped))]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(folder: Path, options: argparse.Namespace) -> None:
    corpus, queries = folder / "corpus.jsonl", folder / "queries.json"
    every = write_corpus(corpus, options.documents)
    step = max(1, len(every) // options.queries)
    queries.write_text(json.dumps(every[::step][: options.queries]))
    began, cpu = time.perf_counter(), time.process_time()
    index = Bm25Index.of_file(corpus, shown=True)
    built = {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
    files = sum(p.stat().st_size for d in folder.glob("*.bm25-*") for p in d.iterdir())
    print(f"{len(index):,} documents, corpus {corpus.stat().st_size / 2**20:.1f} MiB")
    print(f"build: {built['wall_s']:.1f} s ({built['cpu_s']:.1f} s CPU), ", end="")
    print(f"{len(index) / built['wall_s']:,.0f} documents/s, index {files / 2**20:.1f} MiB")
    rows: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for _ in range(options.rounds):
        for mapped, found in rows.items():
            found.append(child(corpus, queries, mapped))
    for mapped, found in rows.items():
        middle = {k: sorted(row[k] for row in found)[len(found) // 2] for k in found[0]}
        shown = ", ".join(f"{key} {value:.2f}" for key, value in middle.items())
        print(f"{'mapped' if mapped else 'in memory'}: {shown}")


def main() -> None:
    parser = Options(__doc__, {"documents": 500, "queries": 5, "rounds": 1})
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keep corpus and index there")
    parser.add_argument("--ask", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        corpus, queries, mapped = options.ask
        rows = json.loads(Path(queries).read_text())
        print(json.dumps(asked(Path(corpus), rows, mapped == "1")))
    elif options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        measure(options.folder, options)
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), options)


if __name__ == "__main__":
    main()
