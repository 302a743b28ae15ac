"""Trust: which parts of a config execute something, and which of them the user has allowed (docs/explanation/trust.md).

``parts`` defines parts and their digests, ``records`` stores the user's permissions, ``decision`` decides.
"""
