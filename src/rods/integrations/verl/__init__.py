"""Inside verl: its trainer on Ray over our curriculum, rollouts and worlds (docs/guides/verl.md).

Owns nothing beside its parts: `config.py` makes verl's configuration of a recipe, `start.py` starts
verl's trainer; `data.py`, `agent.py` and `trainer.py` are what verl then calls. Only `rows.py` and
the settings of `config.py` are read without verl. Nothing else in RODS imports verl.

    cfg = compose(config, "runs/verl", ["actor_rollout_ref.rollout.name=sglang"])
    start(cfg, hosted)
"""
