"""Route the API of what the dashboard gives to take along."""

from django.urls import path

from frontend.bundles.views import BundleView

urlpatterns = [path("runs/<slug:run>/bundle", BundleView.as_view())]
