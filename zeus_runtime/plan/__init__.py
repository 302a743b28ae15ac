"""From a validated config to a Plan: resolved components, checks, the inventory of tools. Nothing is opened here."""
