"""How is a document drawn?"""
