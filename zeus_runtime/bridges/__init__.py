"""Run components of other frameworks as Zeus components. A bridge is imported only by the plugins that use it."""
