"""The command line: `iosched reproduce`, `iosched run`, `iosched validate`, `iosched fit-hosts`."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from pathlib import Path

from . import __version__
from .errors import EngineError, ScenarioError


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 on success, 2 for bad input (one sentence on stderr), 1 if a law broke."""
    args = parser().parse_args(argv)
    try:
        return args.run(args)
    except ScenarioError as error:
        print(f"iosched: {error}", file=sys.stderr)
        return 2
    except EngineError as error:
        print(f"iosched: {error} Please report it with the scenario.", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"iosched: {error.strerror or error}.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("iosched: interrupted.", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """The argument parser of all commands."""
    top = argparse.ArgumentParser(prog="iosched", description="Model how the Linux block layer schedules I/O.")
    top.add_argument("--version", action="version", version=f"iosched {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    p = commands.add_parser("reproduce", help="the reproduction table of a thread, or of all")
    p.add_argument("thread", nargs="?", help="dsync, dbench or writeback; all threads without it")
    p.add_argument("--json", action="store_true", help="one JSON object a claim, one a line")
    p.add_argument("--out", metavar="DIR", help="also write tables and figures there")
    p.set_defaults(run=reproduce_command)

    p = commands.add_parser("run", help="simulate a scenario.toml")
    p.add_argument("file", metavar="FILE.toml")
    p.add_argument("--json", action="store_true", help="jobs, iostat and time budget as JSON")
    p.add_argument("--timeline", metavar="PICTURE", help="also draw one write (.png, .svg, .pdf)")
    p.set_defaults(run=run_command)

    p = commands.add_parser("validate", help="hold the simulator against measurements")
    kinds = p.add_subparsers(required=True, metavar="KIND")
    k = kinds.add_parser("kernel", help="a CSV table of real-kernel runs (columns of data/kernel/)")
    k.add_argument("file", metavar="FILE.csv")
    k.add_argument("--kernel", metavar="VERSION", help="only runs of kernels whose version begins so, such as 4.19")
    k.add_argument("--json", action="store_true", help="the comparison as one JSON object")
    k.add_argument("--plot", metavar="PICTURE", help="also draw measured against simulated (.png, .svg, .pdf)")
    k.set_defaults(run=validate_command)

    p = commands.add_parser("fit-hosts", help="host costs of each kernel in a CSV table, from its noop and none rows")
    p.add_argument("file", metavar="FILE.csv", nargs="+")
    p.set_defaults(run=fit_hosts_command)
    return top


def reproduce_command(args: argparse.Namespace) -> int:
    """`iosched reproduce [thread]`."""
    from tqdm.auto import tqdm

    from . import threads
    from .engine.warm import warm_up

    names = [args.thread] if args.thread else list(threads.THREADS)
    outcomes: list[threads.Outcome] = []
    total = sum(len(threads.claims(name)) for name in names)
    warm_up(show=not args.json)
    with tqdm(total=total, unit="claim", disable=args.json or not sys.stderr.isatty(), leave=False) as bar:
        for name in names:
            outcomes += threads.reproduce(name, on_claim=lambda _: bar.update())
    if args.out:
        write_reports(Path(args.out), names, outcomes, quiet=args.json)
    if args.json:
        for outcome in outcomes:
            print(json.dumps(outcome.as_json()))
    else:
        print(threads.text(outcomes))
    return 0


def write_reports(folder: Path, names: list[str], outcomes: list, *, quiet: bool) -> None:
    """Tables and figures of a reproduction into a folder."""
    from . import threads
    from .reports import write_figures

    try:
        folder.mkdir(parents=True, exist_ok=True)
        threads.table(outcomes).to_csv(folder / "reproduction.csv", index=False)
        (folder / "reproduction.txt").write_text(threads.text(outcomes) + "\n", encoding="utf-8")
        written = write_figures(folder, names, outcomes)
    except OSError as error:
        raise ScenarioError(f"--out: {str(folder)!r} cannot be written ({error.strerror or error}).") from None
    if not quiet:
        print(f"wrote {len(written) + 2} files to {folder}{os.sep}: {', '.join(p.name for p in written)}\n")


def run_command(args: argparse.Namespace) -> int:
    """`iosched run scenario.toml`."""
    from .engine.warm import warm_up
    from .scenario_file import read_scenario
    from .simulation import simulate

    scenario = read_scenario(args.file)
    if args.timeline:
        writable_picture("--timeline", args.timeline)
    warm_up(show=not args.json)
    progress = not args.json and sys.stderr.isatty()
    result = simulate(scenario.machine, scenario.jobs, progress=progress, trace=bool(args.timeline))
    if args.timeline:
        from .plots import save

        save(result.timeline(), args.timeline)
    if args.json:
        print(
            json.dumps(
                {
                    "jobs": result.jobs.to_dict("records"),
                    "iostat": result.iostat.to_dict("records")[0],
                    "time_budget": result.time_budget.to_dict("records"),
                }
            )
        )
    else:
        print(result)
    return 0


def validate_command(args: argparse.Namespace) -> int:
    """`iosched validate kernel FILE.csv`."""
    from .engine.warm import warm_up
    from .validate import validate_kernel

    if args.plot:
        writable_picture("--plot", args.plot)
    warm_up(show=not args.json)
    chosen = None if args.kernel is None else lambda run: run.conditions["kernel"].startswith(args.kernel)
    comparison = validate_kernel(args.file, keep=chosen, progress=not args.json and sys.stderr.isatty())
    if args.plot and comparison.rows:
        from .plots import save, validation_scatter

        save(validation_scatter(comparison.frame()), args.plot)
    print(json.dumps(comparison.summary()) if args.json else comparison)
    return 0


def writable_picture(option: str, name: str) -> None:
    """Refuse a picture that could not be written, before the work is done. Raises ScenarioError."""
    path = Path(name)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ScenarioError(f"{option}: {name!r} is not a picture; give a name that ends in .png, .svg or .pdf.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise ScenarioError(f"{option}: {str(path.parent)!r} is not a folder that can be written; give another.")


def fit_hosts_command(args: argparse.Namespace) -> int:
    """`iosched fit-hosts FILE.csv ...`: prints the rows of data/hosts.csv."""
    from .engine.warm import warm_up
    from .measure.hostfit import hosts_table
    from .measure.kernel_rows import read_kernel_csv

    warm_up(show=False)
    rows = hosts_table([run for file in args.file for run in read_kernel_csv(file)[0]])
    if not rows:
        raise ScenarioError("FILE: it has no noop or none row on null_blk that can be simulated.")
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
