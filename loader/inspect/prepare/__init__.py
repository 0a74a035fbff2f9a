"""Propose the choices of `energon prepare` from what samples hold, and check them."""
