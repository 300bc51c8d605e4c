"""The bundled small policy, and what makes it again: `rods pretrain`."""
