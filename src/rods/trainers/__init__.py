"""Trainers: they turn scored groups of trajectories into better weights.

`samples`, `advantages` and `losses` are shared by all trainers; `local` is the small trainer of one
process; adapters to host trainers stand beside it. Nothing here draws tasks or judges them.

    trainer = LocalTrainer(model, tokenizer, settings, model_settings, total_steps=100, seed=0)
    report = trainer.update(groups, scores)
"""
