"""What the methods share: feature maps, the one data pass, the one loop, balance and starts."""
