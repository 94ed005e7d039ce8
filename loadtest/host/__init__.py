"""The cost of the two processes around the model: what they could serve if a runner computed nothing."""
