"""What every layer may use, and what uses none of them."""
