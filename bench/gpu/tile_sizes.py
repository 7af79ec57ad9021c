#!/usr/bin/env python3
"""What the sizes of tiles are worth: float16 kernels told to hold other numbers of query rows, and fewer slots of document
tiles, than they would by themselves. --native names the program cuda_tile_sizes, which does the measuring."""

import json
import subprocess
from pathlib import Path

from report import Report, parser
from timing import ceilings


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--native", type=Path, required=True)
    args = made.parse_args(arguments)
    limits = ceilings(rounds=9)
    report = Report(args, **limits)
    output = subprocess.run([args.native.resolve()], capture_output=True, text=True, check=True).stdout
    for line in map(json.loads, output.splitlines()):
        floor = max(line["flop"] / limits["float16_tflops"] / 1e9, line["bytes"] / limits["copy_tbps"] / 1e9)
        line = report.add(floor_ms=round(floor, 5), **line)
        sizes = f"{line['rows']:4} rows, {line['slots']:2} slots" if line["rows"] else "by itself         "
        print(f"{line['case']:24} {line['kernel']:5} {sizes} {line['median_ms']:8.4f} ms, {100 * floor / line['median_ms']:4.0f} %")


if __name__ == "__main__":
    main()
