"""What a run holds in memory and on disk, worked out before it starts; a leaner optimiser.

`shape.py` reads a model's sizes from its config alone, `plan.py` adds them up, `advice.py` says
which setting would make a run fit, `machine.py` how much there is, `adamw.py` is the optimiser.
`context.py` compares the context with the model's positions, `hosts.py` plans for TRL.

    plan = plan_of(shape_of(load_architecture(config.model)), config, on_gpu=True)
"""
