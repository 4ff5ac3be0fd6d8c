"""ScaleGroups: how much is needed, what is made and given back, and what of it they say."""
