"""Things that go wrong on boards, to be provoked: what each does, where it shows, what ends it."""
