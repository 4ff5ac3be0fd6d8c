"""What the house needs of the outside world: Protocols and typed errors. Adapters satisfy them, fakes included."""
