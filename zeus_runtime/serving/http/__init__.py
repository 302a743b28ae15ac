"""`zeus serve`: agents over HTTP. Imported only to serve; it needs the extra ``serve``."""
