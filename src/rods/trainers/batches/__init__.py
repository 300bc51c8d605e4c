"""From samples to what an optimiser step and a forward pass see."""
