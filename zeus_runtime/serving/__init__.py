"""Agents served to other programs: one module for each protocol, which drives an ``Agent`` and reads its events."""
