"""Quirks at run time: the affected operators of PyTorch, and no others, go round the faults. May import: terms."""
