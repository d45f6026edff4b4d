"""Human studies: made from runs and boards, shown to raters in a browser, kept in a database."""
