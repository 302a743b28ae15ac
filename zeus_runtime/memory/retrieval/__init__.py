"""What is found for a query: words and vectors brought onto one scale, ranked over all that the caller may see."""
