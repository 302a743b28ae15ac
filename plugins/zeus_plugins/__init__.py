"""The bundled plugins, found through entry points like anyone's."""
