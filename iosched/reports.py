"""The figures that `make reproduce` leaves in reports/."""

from __future__ import annotations

from pathlib import Path

from . import plots, validate
from .data import data_file
from .threads import claims, dbench, dsync, io_latency, nfs, table, writeback


def write_figures(folder: Path, names: list[str], outcomes: list) -> list[Path]:
    """Draw every thread's figures and the scatter of the kernel rows; returns the files written."""
    written = [plots.save(plots.reproduction(table(outcomes)), folder / "reproduction.svg")]
    if "dsync" in names:
        written += dsync_figures(folder)
    if "dbench" in names:
        dbench.course().round(2).to_csv(folder / "dbench-course.csv")
        dbench.ablation().round(3).to_csv(folder / "dbench-ablation.csv", index=False)
        dbench.waker_grid().round(3).to_csv(folder / "dbench-waker-grid.csv", index=False)
        written += [folder / f"dbench-{name}.csv" for name in ("course", "ablation", "waker-grid")]
    if "writeback" in names:
        written += writeback_figures(folder)
    if "nfs" in names:
        written += nfs_figures(folder)
    if "io-latency" in names:
        io_latency.price().round(3).to_csv(folder / "io-latency-price.csv", index=False)
        written.append(folder / "io-latency-price.csv")
    comparison = validate.validate_kernel(data_file("kernel/dd.csv"), keep=validate.in_scope)
    written.append(plots.save(plots.validation_scatter(comparison.frame()), folder / "kernel-rows.svg"))
    (folder / "kernel-rows.txt").write_text(f"{comparison}\n", encoding="utf-8")
    loads = validate.validate_kernel(data_file("kernel/dbench.csv"), keep=validate.in_scope)
    written.append(plots.save(plots.validation_scatter(loads.frame()), folder / "kernel-rows-dbench.svg"))
    (folder / "kernel-rows-dbench.txt").write_text(f"{loads}\n", encoding="utf-8")
    return [*written, folder / "kernel-rows.txt", folder / "kernel-rows-dbench.txt"]


def dsync_figures(folder: Path) -> list[Path]:
    """Thread 0: one write under CFQ and noop, where the time goes, and the slice_idle x group_idle grid."""
    from .simulation import simulate
    from .sweeps import sweep

    machine, _ = dsync.scenario("vm-4.19", "cfq")
    figures = {claim.id: (claim.low, claim.high) for claim in claims("dsync")}
    slow, fast = figures["T0-044"], figures["T0-045"]  # seconds a write
    results = {
        name: simulate(dsync.scenario("vm-4.19", name)[0], [dsync.job()], trace=True) for name in ("cfq", "noop")
    }
    written = [
        plots.save(result.timeline(operation=501), folder / f"dsync-timeline-{name}.svg")
        for name, result in results.items()
    ]
    written.append(
        plots.save(plots.time_budget(results, {"cfq": slow, "noop": fast}), folder / "dsync-time-budget.svg")
    )
    over = {"scheduler.slice_idle": range(17), "scheduler.group_idle": range(17)}
    grid = sweep(machine, [dsync.job(count=300)], over=over)
    written.append(
        plots.save(plots.grid_heatmap(grid, published={(8, 8): slow, (0, 0): fast}), folder / "dsync-idle-grid.svg")
    )
    dsync.preconditions().to_csv(folder / "dsync-preconditions.csv", index=False)
    return [*written, folder / "dsync-preconditions.csv"]


def writeback_figures(folder: Path) -> list[Path]:
    """Thread 3: what reader and writer got in each setup, and the reader's latencies loaded and idle."""
    shares = writeback.table()
    shares.round(2).to_csv(folder / "writeback-shares.csv", index=False)
    runs = {"idle": "idle read", "beside the writer, CFQ": "cfq"}
    modelled = {name: writeback.modelled_buckets("wd", run) for name, run in runs.items()}
    said = {name: writeback.published_buckets(run) for name, run in runs.items()}
    return [
        plots.save(plots.shares(shares, "Thread 3: reader beside writer"), folder / "writeback-shares.svg"),
        plots.save(plots.latency_buckets(modelled, said), folder / "writeback-buckets.svg"),
        folder / "writeback-shares.csv",
    ]


def nfs_figures(folder: Path) -> list[Path]:
    """Thread 4: dd's rates, and one disk under CFQ, the patch and deadline."""
    names = (
        "cfq",
        "clone_io",
        "cooperators",
        "both",
        "shared io_context",
        "merging queues",
        "anticipatory",
        "deadline",
    )
    bars = plots.dd_rates(nfs.rates(*names, "deadline"), nfs.published(), nfs.forms("cfq", "deadline"))
    lanes = plots.interleaving(nfs.traced("cfq", "cooperators", "deadline"))
    nfs.iostat_rows().round(2).to_csv(folder / "nfs-iostat.csv", index=False)
    pictures = {"nfs-rates.svg": bars, "nfs-interleaving.svg": lanes}
    return [folder / "nfs-iostat.csv", *(plots.save(picture, folder / name) for name, picture in pictures.items())]
