"""Notifications: what matters, told to people by Apprise's services; see docs/notifications.md.

`messages` makes one message of one record of the state's outbox, `settings` says who gets which,
and `deliver` follows the outbox for each receiver, with a place of its own.
"""
