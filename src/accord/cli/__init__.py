"""Arguments in, words out; one file per verb. May import: everything."""
