
BlogitsJ(8Úx?˜!‰?Uƒ‹¿¶UÛ>w’J¿âKn¿p¢:?–k?8 Ä>Hl?