"""How values and keys of declared types become bytes and Arrow columns, and back."""
