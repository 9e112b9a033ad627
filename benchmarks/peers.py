"""`make peers`: iosched beside SimPy, Ciw, plain Python and C, in one run; table and figure into reports/.

Each measurement is a process of its own, so that its peak memory is its own (and this one stays small until the end: a
child's peak counts what it had from its parent). A tool stops growing where its next size
would take longer than `LONGEST` seconds. Every tool must come to the rate that theory gives, within 2 %.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from networks import JOBS, NETWORKS, theory

if TYPE_CHECKING:
    import pandas as pd

HERE = Path(__file__).resolve().parent
SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
LONGEST = 12.0
C_PROGRAMS = {"closed network": "closed_network.c", "thread 0, idle rule alone": "thread0.c"}
WARM_UP = 1000
DEVIATION = 0.02  # at 10^5 requests and more; fewer are too few


def one(network: str, tool: str, n: int) -> dict[str, float]:
    """In a process of its own: requests, simulated seconds, CPU seconds, peak memory in bytes."""
    function = NETWORKS[network][tool]
    function(WARM_UP)
    before = time.process_time()
    served, simulated = function(n)
    cpu = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"requests": served, "simulated_s": simulated, "cpu_s": cpu, "peak_bytes": peak}


def measure(network: str, tool: str, n: int, programs: dict[str, Path]) -> dict[str, float]:
    """The same from outside."""
    if tool != "C":
        done = subprocess.run(
            [sys.executable, __file__, network, tool, str(n)], capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)
    child = subprocess.Popen([programs[network], str(JOBS), str(n)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    served, simulated, cpu = (float(word) for word in child.stdout.read().split())
    _, _, usage = os.wait4(child.pid, 0)
    return {"requests": served, "simulated_s": simulated, "cpu_s": cpu, "peak_bytes": usage.ru_maxrss * 1024}


def compiled(folder: Path) -> dict[str, Path]:
    """The C programs, where there is a compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        print("no C compiler: the C programs are left out", file=sys.stderr)
        return {}
    programs = {}
    for network, source in C_PROGRAMS.items():
        programs[network] = folder / Path(source).stem
        subprocess.run([compiler, "-O2", "-o", programs[network], HERE / source, "-lm"], check=True)
    return programs


def compare() -> list[dict]:
    """One row a network, tool and size: requests a CPU-second, peak memory, and the rate over theory's."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        programs = compiled(Path(folder))
        for network, tools in NETWORKS.items():
            for tool in [*tools, *(["C"] if network in programs else [])]:
                for n in SIZES:
                    found = measure(network, tool, n, programs)
                    rate = found["requests"] / found["simulated_s"] / theory(network)
                    if n >= 10**5 and abs(rate - 1) > DEVIATION:
                        raise SystemExit(f"{tool} does not simulate the {network}: {rate:.3f} of theory's rate")
                    per_s = found["requests"] / found["cpu_s"] if found["cpu_s"] > 0 else float("nan")
                    rows.append(
                        {"network": network, "tool": tool, "size": n, **found, "per_cpu_s": per_s, "rate": rate}
                    )
                    print(
                        f"{network:26} {tool:8} {n:>9} {per_s:>14,.0f} {found['peak_bytes'] / 2**20:8.1f} MiB",
                        flush=True,
                    )
                    if found["cpu_s"] * 10 > LONGEST:
                        break
    return rows


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Each tool at its largest size, and how many times quicker iosched is at its own."""
    import pandas as pd

    rows = []
    for (network, tool), of in frame.groupby(["network", "tool"], sort=False):
        last = of.iloc[-1]
        own = frame[(frame.network == network) & (frame.tool == "iosched")].iloc[-1]
        first = of[of["size"] >= 10**4].iloc[0]
        rows.append(
            {
                "network": network,
                "tool": tool,
                "requests": last["size"],
                "requests a CPU-second": round(last.per_cpu_s),
                "iosched is quicker by": round(own.per_cpu_s / last.per_cpu_s, 2),
                "peak MiB": round(last.peak_bytes / 2**20, 1),
                "MiB more than at 10^4": round((last.peak_bytes - first.peak_bytes) / 2**20, 1),
                "time a request, against 10^4": round((last.cpu_s / last.requests) / (first.cpu_s / first.requests), 3),
            }
        )
    return pd.DataFrame(rows)


def draw(frame: pd.DataFrame, path: Path) -> None:
    """CPU time and memory against size, a line a tool, a row of panels a network."""
    import seaborn as sns
    from matplotlib.figure import Figure

    networks = frame.network.unique()
    figure = Figure(figsize=(15, 6 * len(networks)), layout="constrained")
    panels = figure.subplots(len(networks), 2, squeeze=False)
    sns.set_context("talk")
    for (left, right), network in zip(panels, networks):
        of = frame[frame.network == network].assign(memory=frame.peak_bytes / 2**20)
        style = {
            "hue": "tool",
            "style": "tool",
            "markers": True,
            "dashes": False,
            "palette": "colorblind",
            "lw": 3,
            "ms": 12,
        }
        sns.lineplot(of, x="size", y="cpu_s", ax=left, **style)
        sns.lineplot(of, x="size", y="memory", ax=right, legend=False, **style)
        left.set(xscale="log", yscale="log", xlabel="requests", ylabel="CPU time (s)", title=network)
        right.set(xscale="log", yscale="log", xlabel="requests", ylabel="peak memory (MiB)", title=network)
    figure.savefig(path)


def main() -> int:
    if len(sys.argv) == 4:
        print(json.dumps(one(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
        return 0
    reports = Path(sys.argv[1]) if len(sys.argv) == 2 else HERE.parent / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-c", "from iosched.engine.warm import warm_up; warm_up()"], check=True)
    rows = compare()
    import pandas as pd

    frame = pd.DataFrame(rows)
    table = summary(frame)
    frame.to_csv(reports / "peers.csv", index=False)
    text = table.to_string(index=False)
    (reports / "peers.txt").write_text(text + "\n", encoding="utf-8")
    draw(frame, reports / "peers.png")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
