"""What stages cost: bytes on a rank, bytes of a request, FLOPs and traffic of a step.

In: tensors, cache groups and operators. Out: figures. May import: terms.
"""
