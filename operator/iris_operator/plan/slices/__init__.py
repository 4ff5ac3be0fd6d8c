"""One Slice: from NodePool to Ready and back to nothing."""
