"""A small policy learns to compute with Python: `python examples/hello/hello.py`."""

import rods

if __name__ == "__main__":  # the run starts processes that import this file
    run = rods.train(rods.load_config("torl", "small", ["updates=20"]), "runs/hello")
    for row in run.metrics():
        if row["kind"] == "eval":
            right = sum(task["greedy_progress"] == [1.0] for task in row["rows"])
            print(f"{row['when']}: {right} of {len(row['rows'])} held-out questions right")
