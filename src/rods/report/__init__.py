"""Reports: what a run did, for people. Reads run directories, never writes into their data.

`build.py` makes `report.html`, `compare.py` sets runs side by side, `results.py` prints the end
of a run, `live.py` shows training while it goes on.

    from rods.report.build import build_report
    build_report(Path("runs/today"))        # -> runs/today/report.html
"""
