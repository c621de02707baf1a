"""Decides between schedules with the exact cycle model."""
