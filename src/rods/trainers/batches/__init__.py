"""From samples to what an optimizer step and a forward pass see."""
