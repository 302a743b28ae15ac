"""From a validated config to a Plan: components resolved, checks, the inventory of tools. Nothing is opened here."""
