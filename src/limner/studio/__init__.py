"""The studio: storyboards made and changed in a browser, and the REST interface behind them."""
