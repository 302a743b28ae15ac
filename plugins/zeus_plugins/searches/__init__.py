"""Web searches: who is asked, one package each."""
