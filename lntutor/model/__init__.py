"""What a Transformer is, for any placement of its layer norms. Knows nothing of measuring.

config → placements (one line of maths each) → rule (reads that line) → parameters, weight_bank → transformer.
"""
